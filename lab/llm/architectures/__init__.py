"""How language models of each family are counted, derived from transformers' own classes.

``symbols`` builds a model on torch's meta device from integers that remember their expression;
``trace`` builds a family's model at many configurations; ``rules`` finds the condition under which
a weight exists in a layer; ``table`` writes what the serving side counts with; ``evaluate_counts``
holds that table to transformers, class by class.
"""
