"""What a class of students came to."""
