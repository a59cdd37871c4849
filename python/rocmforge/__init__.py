"""Language models from GGUF files, on AMD and NVIDIA GPUs or on the CPU.

    import rocmforge
    model = rocmforge.Model("model.gguf")
    print(model.generate("What is 127 + 458?", greedy=True))

Options are keyword arguments with the names of the program's command line: `max_tokens=100` is `--max-tokens 100`. What is wrong with
them is said in the program's words.
"""
from ._errors import BusyError, Error, OptionError
from ._library import version as _version
from ._model import Answer, Model, Sequence, Server, Stream

__version__ = _version()
__all__ = ["Answer", "BusyError", "Error", "Model", "OptionError", "Sequence", "Server", "Stream", "__version__"]
