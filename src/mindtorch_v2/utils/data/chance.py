"""Random numbers of samplers: drawn from a generator as PyTorch's samplers draw them, or from the default one."""

import mindtorch_v2 as torch


def _options(generator):
    return {} if generator is None else {"generator": generator}


def draw_seed(generator=None):
    """63 random bits of the generator: a seed for another one."""
    low = -(2**63)
    value = torch.empty((), dtype=torch.int64).random_(low, 2**63 - 1, **_options(generator)).item()
    return (value - low) % 2**63


def derived(generator=None):
    """`generator`, or a new one with a seed from the default one."""
    if generator is not None or not hasattr(torch, "Generator"):
        return generator
    made = torch.Generator()
    made.manual_seed(draw_seed())
    return made


def permutation(count, generator):
    return torch.randperm(count, **_options(generator)).tolist()


def integers(high, count, generator):
    return torch.randint(high, (count,), dtype=torch.int64, **_options(generator)).tolist()


def choices(weights, count, replacement, generator):
    return torch.multinomial(weights, count, replacement, **_options(generator)).tolist()
