"""One module a step of training, each with `train(work, models, seed)`; `plan` lists them, `crew` runs them."""
