"""What Philox4x32-10 answers: the table of Random123 (kat_vectors), for its reference and every kernel."""

VECTORS = [  # counter, key, words: Random123's known answers
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def numbers(hexadecimal):
    return [int(word, 16) for word in hexadecimal.split()]
