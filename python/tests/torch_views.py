"""Calls of PyTorch's ops whose results may share memory with an operand, by the names of the schemas. Each takes a
float tensor [4, 4]."""

import torch

aten = torch.ops.aten


# Of sparse and nested tensors, of autograd's internals, of TorchScript alone, or of a device: an export has none.
WITHOUT_EXPORT = {
    "_autocast_to_full_precision", "_autocast_to_reduced_precision", "_fw_primal", "_grad_sum_to_size", "_indices", "_make_dual",
    "_ncf_unsqueeze", "_ncf_view", "_nested_get_values", "_nested_view_from_buffer", "_nested_view_from_jagged",
    "_sparse_broadcast_to", "_test_autograd_multiple_dispatch_view", "_unpack_dual", "_values", "as_tensor", "ccol_indices",
    "coalesce", "col_indices", "cpu", "crow_indices", "cuda", "indices", "pin_memory", "row_indices", "values",
}  # fmt: skip

VIEWS = {
    "_conj": [],  # of complex tensors
    "_neg_view": [lambda x: aten._neg_view(x)],
    "_reshape_alias": [lambda x: aten._reshape_alias(x, [2, 8], [8, 1])],
    "adjoint": [lambda x: x.adjoint()],
    "alias": [lambda x: aten.alias(x)],
    "as_strided": [lambda x: x.as_strided((2, 2), (4, 1))],
    "broadcast_to": [lambda x: torch.broadcast_to(x, (4, 4)), lambda x: torch.broadcast_to(x, (2, 4, 4))],
    "chunk": [lambda x: x.chunk(3)[1]],
    "conj": [lambda x: x.conj()],
    "contiguous": [lambda x: x.contiguous(), lambda x: x.T.contiguous(), lambda x: (x.T + 0).contiguous()],
    "detach": [lambda x: x.detach()],
    "diagonal": [lambda x: x.diagonal(), lambda x: x.diagonal(-1, 1, 0)],
    "dsplit": [lambda x: torch.dsplit(x.view(2, 2, 4), 2)[1], lambda x: torch.dsplit(x.view(2, 2, 4), [1, 2])[2]],
    "expand": [lambda x: x[None].expand(1, 4, 4), lambda x: x[0].expand(3, 4)],
    "expand_as": [lambda x: x.expand_as(x)],
    "flatten": [lambda x: x.flatten(), lambda x: x.T.flatten(), lambda x: x.view(2, 2, 4).transpose(0, 1).flatten(1)],
    "hsplit": [lambda x: torch.hsplit(x, 2)[1], lambda x: torch.hsplit(x[0], [1])[1]],
    "imag": [],
    "lift_fresh": [],  # an export copies it
    "linalg_diagonal": [lambda x: torch.linalg.diagonal(x), lambda x: torch.linalg.diagonal(x.view(2, 2, 4), offset=1)],
    "mH": [lambda x: x.mH],
    "mT": [lambda x: x.mT],
    "matrix_H": [lambda x: x.H],
    "moveaxis": [lambda x: x.moveaxis(0, 1), lambda x: x.view(2, 2, 4).moveaxis((0, 1), (2, 0))],
    "movedim": [lambda x: x.movedim(0, 1), lambda x: x.view(2, 2, 4).movedim((0, 2), (1, 0))],
    "narrow": [lambda x: x.narrow(0, 1, 2), lambda x: x.narrow(1, -3, 2)],
    "numpy_T": [lambda x: x.T],
    "permute": [lambda x: x.view(2, 2, 4).permute(2, 0, 1)],
    "positive": [lambda x: x.positive()],
    "ravel": [lambda x: x.ravel(), lambda x: x.T.ravel()],
    "real": [lambda x: x.real],
    "reshape": [
        lambda x: x.reshape(2, 8),
        lambda x: x.T.reshape(-1),
        lambda x: x.T.reshape(4, 2, 2),
        lambda x: x.T[:, :2].reshape(4, 2, 1),
        lambda x: x[:, 0].reshape(2, 2),
        lambda x: (x.T + 0).reshape(-1),
    ],
    "reshape_as": [lambda x: x.reshape_as(x), lambda x: x.T.reshape_as(x.view(2, 2, 4))],
    "resolve_conj": [lambda x: x.resolve_conj()],
    "resolve_neg": [lambda x: x.resolve_neg()],
    "select": [lambda x: x.select(1, -1)],
    "slice": [lambda x: x[1:], lambda x: x[-3:-1, 1:9:2]],
    "slice_inverse": [],
    "split": [lambda x: x.split(3)[0], lambda x: x.split([1, 3])[1]],
    "split_with_sizes": [lambda x: torch.split_with_sizes(x, [1, 3], 1)[1]],
    "squeeze": [lambda x: x[None].squeeze(), lambda x: x[None].squeeze(0), lambda x: x[None, None].squeeze((0, 1))],
    "swapaxes": [lambda x: x.swapaxes(0, 1)],
    "swapdims": [lambda x: x.swapdims(0, 1)],
    "t": [lambda x: x.t()],
    "tensor_split": [lambda x: torch.tensor_split(x, 3)[1], lambda x: torch.tensor_split(x, (1, 3), 1)[1]],
    "to": [
        lambda x: x.to(torch.float32),
        lambda x: x.to(torch.float32, copy=True),
        lambda x: x.double(),
        lambda x: aten.to.dtype(x, torch.float32),
        lambda x: aten.to.device(x, torch.device("cpu"), torch.float32),
        lambda x: aten.to.other(x, x[0]),
        lambda x: aten.to.dtype_layout(x, dtype=torch.float32, layout=torch.strided, device=torch.device("cpu")),
    ],
    "transpose": [lambda x: x.view(2, 2, 4).transpose(0, 2)],
    "unbind": [lambda x: x.unbind(1)[1]],
    "unflatten": [lambda x: x.unflatten(0, (2, 2))],
    "unfold": [lambda x: x.unfold(0, 2, 2), lambda x: x.unfold(0, 2, 1)],
    "unsqueeze": [lambda x: x.unsqueeze(-1)],
    "view": [lambda x: x.view(2, 8), lambda x: x.view(torch.int32), lambda x: x.view(torch.int16), lambda x: x.view(torch.int64)],
    "view_as": [lambda x: x.view_as(x)],
    "view_as_complex": [lambda x: torch.view_as_complex(x.view(4, 2, 2))],
    "view_as_real": [],
    "vsplit": [lambda x: torch.vsplit(x, 2)[0], lambda x: torch.vsplit(x, [1, 3])[1]],
    # The schemas of these do not say so.
    "others": [
        lambda x: torch.atleast_1d(x),
        lambda x: torch.atleast_2d(x[0]),
        lambda x: torch.atleast_3d(x),
        lambda x: torch.atleast_3d(x, x[0])[1],
        lambda x: torch.broadcast_tensors(x, torch.ones(1, 4))[0],
        lambda x: torch.broadcast_tensors(x[0], torch.ones(2, 4))[0],
        lambda x: torch.cartesian_prod(x[0]),
        lambda x: torch.conj_physical(x),
        lambda x: torch.einsum("ij->ji", x),
        lambda x: torch.einsum("ii->i", x),
        lambda x: torch.einsum("ij->i", x),
        lambda x: torch.einsum("ij,jk->ik", x, x),
        lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0],
        lambda x: torch.meshgrid(x[0], x[1, :1], indexing="ij")[0],
        lambda x: torch.nn.functional.dropout(x, 0.5, False),
        lambda x: torch.nn.functional.alpha_dropout(x, 0.5, False),
        lambda x: torch.nn.functional.dropout1d(x, 0.5, False),
        lambda x: torch.unsafe_chunk(x, 2)[1],
        lambda x: torch.unsafe_split(x, 2)[0],
        lambda x: torch.unsafe_split_with_sizes(x, [1, 3])[1],
        lambda x: x.sum_to_size(4, 4),
        lambda x: x.sum_to_size(1, 4),
        lambda x: x.type_as(x),
        lambda x: x.type_as(x.double()),
        lambda x: x.clone(),
        lambda x: x[torch.tensor([0, 2])],
        lambda x: x.rot90(4),
        lambda x: torch.nn.functional.pad(x, (0, 0)),
        lambda x: x.repeat(1, 1),
    ],
}

# Of complex tensors [4, 4].
COMPLEX_VIEWS = [
    lambda z: aten._conj(z),
    lambda z: z.adjoint(),
    lambda z: z.conj(),
    lambda z: z.conj().resolve_conj(),
    lambda z: torch.conj_physical(z),
    lambda z: z.imag,
    lambda z: z.mH,
    lambda z: z.H,
    lambda z: z.real,
    lambda z: z.T,
    lambda z: torch.view_as_real(z),
    lambda z: torch.view_as_real(z)[0, :, 1],
    lambda z: z.view(torch.float32),
]


def names():
    """The ops whose schemas have a result that aliases a tensor."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        first = schema.arguments[0] if schema.arguments else None
        aliases = any(r.alias_info is not None for r in schema.returns)
        if schema.name.startswith("aten::") and aliases and not schema.is_mutable and str(first.type) == "Tensor":
            found.add(schema.name.removeprefix("aten::"))
    return found
