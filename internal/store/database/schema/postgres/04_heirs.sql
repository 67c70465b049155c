-- Who takes over the rows of an owner that has ended: one living owner at a time.

ALTER TABLE owner ADD COLUMN heir TEXT COLLATE "C";
