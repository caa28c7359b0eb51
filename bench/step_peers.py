"""One peer of a training step, as a process that reads requests: python bench/step_peers.py KIND MODEL quick|full THREADS

KIND is jax, jax-8 (8 host devices, dp=2, tp=4), torch, torch.compile, dtensor (8 processes over gloo, dp=2, tp=4), or lower or
lower-8, which print the step as StableHLO. A line on standard input is JSON {"repeat": K}; the answer is {"ms": [...]} or
{"absent": WHY}. The first line is the peer's version. Models are those of bench/models."""

import json
import os
import sys
import time

KIND, MODEL, QUICK, THREADS = sys.argv[1], sys.argv[2], sys.argv[3] == "quick", int(sys.argv[4])
DP, TP = 2, 4


def jax_step(devices):
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen={'true' if THREADS > 1 else 'false'}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
    from models.jax_steps import step
    parameters, data, run = step(MODEL, QUICK)
    if devices == 1:
        return jax, jax.jit(run), parameters, data
    auto = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((DP, TP), ("dp", "tp"), axis_types=auto, devices=jax.devices()[:devices])
    along = {"qkv": (None, "tp"), "up": (None, "tp"), "gate": (None, "tp"), "q": (None, "tp"), "out": ("tp", None), "down": ("tp", None)}

    def sharding(path, leaf):
        return NamedSharding(mesh, PartitionSpec(*along.get(getattr(path[-1], "key", None), ())))
    of_parameters = jax.tree_util.tree_map_with_path(sharding, parameters)
    of_data = [NamedSharding(mesh, PartitionSpec("dp")) for _ in data]
    jitted = jax.jit(run, in_shardings=(of_parameters, *of_data), out_shardings=(NamedSharding(mesh, PartitionSpec()), of_parameters))
    return jax, jitted, parameters, data, (of_parameters, of_data)


def serve_jax(devices):
    jax, run, parameters, data, *shardings = jax_step(devices)
    if shardings:
        parameters = jax.device_put(parameters, shardings[0][0])
        data = [jax.device_put(d, s) for d, s in zip(data, shardings[0][1])]
    else:
        parameters, data = jax.device_put(parameters), [jax.device_put(d) for d in data]
    serve(jax.__version__, lambda: jax.block_until_ready(run(parameters, *data)))


def serve_torch(compiled):
    import torch
    from models.torch_steps import step
    torch.set_num_threads(THREADS)
    module, data = step(MODEL, QUICK)
    run = torch.compile(module) if compiled else module
    parameters = list(module.parameters())
    serve(torch.__version__, lambda: torch.autograd.grad(run(*data), parameters))


def dtensor_rank(rank, orders, answers):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from models.torch_steps import step
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=rank, world_size=DP * TP)
    mesh = init_device_mesh("cpu", (DP, TP), mesh_dim_names=("dp", "tp"))
    module, data = step(MODEL, QUICK)
    for block in module.blocks:
        columns = [n for n in ("qkv", "up", "gate", "q", "k", "v") if hasattr(block, n)]
        plan = {**{n: ColwiseParallel() for n in columns}, "out": RowwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh["tp"], plan)
        block.heads //= TP
    data = [d.chunk(DP)[rank // TP] for d in data]
    parameters, group = list(module.parameters()), mesh["dp"].get_group()

    def once():
        for gradient in torch.autograd.grad(module(*data), parameters):
            local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            dist.all_reduce(local, group=group)
        dist.barrier()
    while (repeat := orders.get()) is not None:
        times = timed(once, repeat)
        if rank == 0:
            answers.put(times)


PORT = 20000 + os.getpid() % 20000


def serve_dtensor():
    import torch
    import torch.multiprocessing as processes
    if MODEL != "gpt":
        return serve(torch.__version__, None, "only gpt is written for DTensor")
    context = processes.get_context("fork")
    orders, answers = [context.Queue() for _ in range(DP * TP)], context.Queue()
    ranks = [context.Process(target=dtensor_rank, args=(r, orders[r], answers), daemon=True) for r in range(DP * TP)]
    for r in ranks:
        r.start()

    def times(repeat):
        for queue in orders:
            queue.put(repeat)
        return answers.get(timeout=300)
    serve(torch.__version__, times)
    for queue in orders:
        queue.put(None)


def timed(once, repeat):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def serve(version, once, absent=None):
    print(json.dumps({"version": version}), flush=True)
    warm = False
    for line in sys.stdin:
        repeat = json.loads(line)["repeat"]
        try:
            if absent:
                raise RuntimeError(absent)
            run = once if KIND == "dtensor" else lambda count: timed(once, count)
            if not warm:
                run(2)
                warm = True
            print(json.dumps({"ms": run(repeat)}), flush=True)
        except Exception as why:  # a step that this peer cannot run
            print(json.dumps({"absent": f"{type(why).__name__}: {why}"[:200]}), flush=True)


def main():
    if KIND.startswith("lower"):
        _, run, parameters, data, *_ = jax_step(8 if KIND == "lower-8" else 1)
        print(run.lower(parameters, *data).as_text())
    elif KIND.startswith("jax"):
        serve_jax(8 if KIND == "jax-8" else 1)
    elif KIND == "dtensor":
        serve_dtensor()
    else:
        serve_torch(KIND == "torch.compile")


if __name__ == "__main__":
    main()
