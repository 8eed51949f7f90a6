"""combined.c in Python: reads real files under, beside and across kernels, and says when it did."""
import ctypes
import os
import sys
import threading
import time

READS_MAX, ROUND_READS, SMALL, START_NS = 4096, 3, 1 << 16, 1500
DIRECTORY, KERNEL_NS, ROUNDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FDS = {name: os.open(f"{DIRECTORY}/{name}", os.O_RDONLY)
       for name in ("under", "beside", "end", "begin")}
LARGE = os.fstat(FDS["begin"]).st_size
BUFFER = memoryview(bytearray(LARGE))  # to make one takes long, and would between clock and read
reads = []  # [file, begin, end, placed]


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


cudart = ctypes.CDLL(sys.argv[4])
cudart.cudaLaunchKernel.argtypes = [ctypes.c_char_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t,
                                    ctypes.c_void_p]


def launch():
    """A launch lies between the times that this returns."""
    before = time.time_ns()
    assert cudart.cudaLaunchKernel(b"combined_kernel", Dim3(1, 1, 1), Dim3(1, 1, 1), None, 0, None) == 0
    return before, time.time_ns()


def wait_until(ns):
    while (left := ns - time.time_ns()) > 0:
        if left > 300000:
            time.sleep(left / 2e9)


def read(name, size):
    assert len(reads) < READS_MAX, f"{name}: is never read where it belongs"
    buffers = [BUFFER[:size]]
    begin = time.time_ns()
    got = os.preadv(FDS[name], buffers, 0)
    reads.append([name, begin, time.time_ns(), 1])
    assert got == size


def judge(placed, behind):
    """Note whether the last read is where it belongs, and wait until no kernel runs any more."""
    reads[-1][3] = int(placed)
    wait_until(behind + START_NS + KERNEL_NS + 500000)


def under():
    before, behind = launch()
    wait_until(behind + START_NS + 1000)
    read("under", SMALL)
    judge(reads[-1][2] < before + START_NS + KERNEL_NS, behind)


def beside():
    read("beside", SMALL)


def across_end():
    before, behind = launch()
    wait_until(behind + KERNEL_NS - 2000000)
    read("end", LARGE)
    judge(reads[-1][1] < before + START_NS + KERNEL_NS < behind + START_NS + KERNEL_NS < reads[-1][2],
          behind)


def across_begin():
    thread = threading.Thread(target=read, args=("begin", LARGE))
    thread.start()
    time.sleep(0.001)
    before, behind = launch()
    thread.join()
    judge(reads[-1][1] < before and behind + START_NS < reads[-1][2], behind)


for _ in range(ROUNDS):
    for place in (under, beside, across_end, across_begin):
        left = ROUND_READS
        while left:
            place()
            left -= reads[-1][3]
for each in reads:
    print(*each)
