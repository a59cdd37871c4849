"""The wheel's tag: any Python 3, on Linux with this C library or a later one. tools/package/make_wheel.py calls it with ROCMFORGE_VERSION."""
import os
import platform

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        glibc = platform.libc_ver()[1].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{platform.machine()}"


setup(version=os.environ["ROCMFORGE_VERSION"], distclass=PlatformDistribution, cmdclass={"bdist_wheel": PlatformWheel})
