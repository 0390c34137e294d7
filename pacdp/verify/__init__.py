"""A checker of certificates that shares no code with what made them: read it, and trust nothing else.

It imports NumPy, and python-flint for numbers with error bars; nothing of ``bounds``, nothing else of ``pacdp``.
"""
