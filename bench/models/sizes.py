"""Sizes of the training steps of bench/blocks.py and bench/sharded.py: NAME -> {quick: sizes}."""

ENCODER = {"layers": 4, "width": 512, "heads": 8}
SMALL = {"layers": 2, "width": 128, "heads": 4}
SIZES = {
    "gpt": {False: {**ENCODER, "positions": 256, "vocabulary": 1000, "batch": 8},
            True: {**SMALL, "positions": 64, "vocabulary": 256, "batch": 8}},
    "llama": {False: {**ENCODER, "groups": 2, "hidden": 1408, "positions": 256, "vocabulary": 1000, "batch": 8},
              True: {**SMALL, "groups": 2, "hidden": 352, "positions": 64, "vocabulary": 256, "batch": 8}},
    "vit": {False: {**ENCODER, "image": 128, "patch": 8, "classes": 1000, "batch": 8},
            True: {**SMALL, "image": 32, "patch": 4, "classes": 64, "batch": 8}},
    "resnet": {False: {"stages": 4, "width": 64, "image": 32, "classes": 1000, "batch": 16},
               True: {"stages": 3, "width": 16, "image": 16, "classes": 64, "batch": 8}},
}
