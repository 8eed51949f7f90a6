# Put into a repository of your own: spack repo create DIR pfw; mkdir DIR/packages/pfw; cp package.py DIR/packages/pfw
from spack.package import *


class Pfw(CMakePackage):
    """Records the I/O, spans and GPU work of a program as JSON lines: the pfw command, its libraries and, with
    +python, its Python package."""

    license("Apache-2.0", checked_by="pfw")

    # Without a server of releases: the tarball of tools/release, whose SHA256SUMS has the digest, or
    # `spack dev-build pfw@0.1.0` in a clone.
    manual_download = True
    url = "file:///pfw_0.1.0.orig.tar.xz"

    version("0.1.0")

    variant("python", default=True, description="Install the Python package")
    variant("isal", default=True, description="Compress by ISA-L, four times as fast as zlib")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("zlib-api")
    depends_on("libdeflate")
    depends_on("elfutils")
    depends_on("isa-l", when="+isal")
    extends("python@3.10:", when="+python")

    def cmake_args(self):
        args = [
            self.define("PFW_TESTS", False),
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
            self.define_from_variant("PFW_PYTHON", "python"),
        ]
        if self.spec.satisfies("+python"):
            args += [
                self.define("PFW_PYTHON_DIR", python_platlib),
                self.define("Python_EXECUTABLE", self.spec["python"].command.path),
            ]
        return args

    def setup_run_environment(self, env):
        if self.spec.satisfies("+isal"):
            env.prepend_path("LD_LIBRARY_PATH", self.spec["isa-l"].prefix.lib)
