"""The model: learners, coders, codes, and the parts they are made of."""
