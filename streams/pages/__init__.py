"""Pages that stand alone: plots as SVG text, templates that refuse what is not given to them."""
