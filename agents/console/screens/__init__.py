"""The screens, one a file: each turns the view into the values that its template shows."""
