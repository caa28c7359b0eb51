"""gpu-static for the models with twelve layers and for every row of bench/gpu.py at its full size; runs on request."""

from checks import gpu_static


def check(context):
    gpu_static.check(context, everything=True)
