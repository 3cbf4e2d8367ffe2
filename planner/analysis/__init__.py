"""What is reckoned about plans afterwards or in theory; no plan depends on it."""
