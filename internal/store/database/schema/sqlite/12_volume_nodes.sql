-- The node of a fleet that has the files of a volume; empty for a daemon alone, and until the node that has them has said so.

ALTER TABLE volume ADD COLUMN node TEXT NOT NULL DEFAULT '';
