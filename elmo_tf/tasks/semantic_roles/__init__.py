"""Semantic roles: the roles of tokens for a predicate of their sentence."""
