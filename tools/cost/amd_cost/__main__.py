"""Models AMD kernels. From tools/: python3 -m amd_cost COMMAND --help. See docs/amd-cost-model.md."""
import argparse
import json
import os
import pathlib
import sys

from . import isa


def kernel_command(options):
    from .chips import CHIPS
    from .cost import predict, text
    from .kernel import Kernel, Launch
    from .step import argument
    chip = CHIPS[options.chip]
    kernel = Kernel(options.object, options.kernel, chip.architecture)
    pointers = []
    arguments = [argument(value, pointers) for value in json.loads(options.arguments)]
    print(text(predict(kernel, Launch(kernel, options.grid, options.block, arguments, options.lds, pointers), chip)))


def step_command(options):
    from .step import report
    print(report(options.description))


def calibrate_command(options):
    from .calibrate import report
    print(report(options.tinygrad))


def objects_of(options):
    from .peers_build import SOURCES, build
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build"))
    from amd_toolchain import find_toolchains, make_device_libraries
    from build_kernels import ISA_VERSIONS
    toolchain, output = find_toolchains()[0], pathlib.Path(options.output).resolve()
    make_device_libraries(toolchain, output / "device-libs", ISA_VERSIONS)
    return lambda architecture: build(options.ik_llama, architecture, output, toolchain, output / "device-libs", tuple(SOURCES))


def peers_command(options):
    from .peers import report
    print(report(objects_of(options)))


def own_command(options):
    from .own_report import report
    print(report(pathlib.Path(options.kernels), options.chips, options.only))


def fit_command(options):
    from .chips import CHIPS
    from .models import FITTED
    from .peers import Peer, fitted_launch_us
    chip = CHIPS[FITTED[1]]
    print(f"{fitted_launch_us(Peer(objects_of(options)(chip.architecture), chip)):.2f} us a launch, from {FITTED[0]} on {chip.name} at {FITTED[2]} tok/s")


def main():
    parser = argparse.ArgumentParser(prog="amd_cost", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    kernel = commands.add_parser("kernel", help="one launch of a kernel")
    kernel.add_argument("object")
    kernel.add_argument("kernel", help="its name, or a part of it that no other kernel has")
    kernel.add_argument("--chip", required=True)
    kernel.add_argument("--grid", type=int, nargs=3, required=True, metavar="GROUPS")
    kernel.add_argument("--block", type=int, nargs=3, required=True, metavar="THREADS")
    kernel.add_argument("--arguments", default="[]", help="JSON, as in a step's description")
    kernel.add_argument("--lds", type=int, default=0, help="bytes of dynamic LDS")
    kernel.set_defaults(run=kernel_command)
    step = commands.add_parser("step", help="the launches of a description, summed")
    step.add_argument("description")
    step.set_defaults(run=step_command)
    calibrate = commands.add_parser("calibrate", help="predicted beside recorded cycles")
    calibrate.add_argument("--tinygrad", default=os.environ.get("TINYGRAD", ""), help="its checkout; default: $TINYGRAD")
    calibrate.set_defaults(run=calibrate_command)
    for name, run, text in (("peers", peers_command, "predicted beside published tokens a second"),
                            ("fit", fit_command, "the time of a launch, from one published figure")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--ik-llama", required=True, help="a checkout of ik_llama.cpp")
        command.add_argument("--output", default="build/amd-cost", help="folder for its compiled kernels")
        command.set_defaults(run=run)
    own = commands.add_parser("own", help="the portable kernels of this project, modelled")
    own.add_argument("--kernels", default="build/kernels", help="folder that ./forge kernels fills")
    own.add_argument("--only", nargs="+", choices=("decode", "prefill", "experts", "steps", "kernels", "several", "chains"), default=("decode", "prefill", "experts", "kernels"), help="parts of the table")
    own.add_argument("--chips", nargs="+", default=[], help="default: all whose code objects are there")
    own.set_defaults(run=own_command)
    options = parser.parse_args()
    try:
        if getattr(options, "chip", None):
            from .chips import CHIPS
            if options.chip not in CHIPS:
                raise isa.Unknown(f"no chip '{options.chip}'; known: {', '.join(CHIPS)}")
        options.run(options)
    except (isa.Unknown, ValueError, OSError) as problem:
        print(f"amd_cost: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
