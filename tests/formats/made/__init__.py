"""Made documents: one module per format, which the contract test finds."""
