"""Small programs for the people who work on Stoker. Nothing here is installed with it."""
