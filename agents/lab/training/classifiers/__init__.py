"""Training of predictors and rules that judge a prompt."""
