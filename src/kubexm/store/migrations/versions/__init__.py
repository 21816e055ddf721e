"""One module for each change of the tables. What is released is never edited."""
