"""Learning the time of model graphs: data, the shipped predictor, rivals in rooms of their own."""
