"""What is made to go wrong with requests and answers."""
