"""One module a step of training, each with `train(work, models, seed)`; `plan` lists them, `runner` runs them."""
