"""Labels, counterfactual pairs and the training mix."""
