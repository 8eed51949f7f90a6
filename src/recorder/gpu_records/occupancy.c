/* recorder/gpu_records/occupancy.c - the share of a GPU's threads that a kernel can keep busy.
 *
 * The rules are those of NVIDIA's CUDA C++ programming guide.  A multiprocessor takes whole blocks,
 * as many as its warps, registers, shared memory and block slots allow.  Registers are given to
 * warps in units; each of the four parts of a multiprocessor has a quarter of them.
 */
#include "recorder/gpu_records/occupancy.h"

#include "common/base/os.h"
#include "recorder/gpu_records/lib.h"

#define WARP 32u
#define REGISTER_UNIT 256u /* registers, per warp */
#define PARTS 4u
#define KNOWN 256u

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t rounded_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t blocks_by_registers(const struct pfw_cuda_device *device, uint64_t registers,
				    uint64_t warps)
{
	uint64_t of_warp = rounded_up(registers * WARP, REGISTER_UNIT);

	return of_warp ? (uint64_t)device->registers / PARTS / of_warp * PARTS / warps : UINT64_MAX;
}

static uint64_t blocks_by_memory(const struct pfw_cuda_device *device, uint64_t bytes)
{
	uint64_t unit = device->major >= 8 ? 128 : 256;

	bytes = rounded_up(bytes + (uint64_t)device->reserved_smem, unit);
	return bytes ? (uint64_t)device->smem / bytes : UINT64_MAX;
}

static uint64_t blocks_of(const struct pfw_cupti_kernel *kernel)
{
	return (uint64_t)kernel->grid[0] * (uint64_t)kernel->grid[1] * (uint64_t)kernel->grid[2];
}

bool pfw_cupti_blocks_per_sm(const struct pfw_cupti_kernel *kernel, double *blocks)
{
	uint64_t grid = blocks_of(kernel), sms;

	if (kernel->at.device >= pfw_cupti_lib.device_count ||
	    pfw_cupti_lib.device[kernel->at.device].sms < 1)
		return false;
	sms = (uint64_t)pfw_cupti_lib.device[kernel->at.device].sms;
	*blocks = grid < UINT64_MAX / 20000 ? (double)((grid * 20000 / sms + 1) / 2) / 10000
					    : (double)grid / (double)sms;
	return true;
}

static double compute(const struct pfw_cuda_device *device, const struct pfw_cupti_kernel *kernel,
		      uint64_t threads)
{
	uint64_t warps = (threads + WARP - 1) / WARP, blocks, share, grid;

	blocks = least((uint64_t)device->threads / WARP / warps, (uint64_t)device->blocks);
	blocks = least(blocks, blocks_by_registers(device, kernel->registers, warps));
	blocks = least(blocks, blocks_by_memory(device, (uint64_t)(uint32_t)kernel->static_smem +
								(uint32_t)kernel->dynamic_smem));
	/* In ten thousandths: a grid too small for the GPU occupies only a part of it. */
	grid = blocks_of(kernel);
	share = blocks * threads * 10000 / (uint64_t)device->threads;
	share = least(share,
		      grid * threads * 10000 / (uint64_t)device->sms / (uint64_t)device->threads);
	return (double)least(share, 10000) / 10000;
}

/* A cache of results by launch shape: programs launch few shapes, many times. */
struct known {
	uint64_t shape, grid;
	double occupancy;
};

bool pfw_cupti_occupancy(const struct pfw_cupti_kernel *kernel, double *occupancy)
{
	static struct known table[KNOWN];
	uint64_t threads = (uint64_t)kernel->block[0] * (uint64_t)kernel->block[1] *
			   (uint64_t)kernel->block[2];
	uint64_t bytes = (uint64_t)(uint32_t)kernel->static_smem + (uint32_t)kernel->dynamic_smem;
	uint64_t grid = blocks_of(kernel);
	uint64_t shape = (uint64_t)kernel->at.device << 56 ^ bytes << 27 ^
			 (uint64_t)kernel->registers << 11 ^ (threads & 2047);
	struct known *known = &table[(shape ^ grid * 7) * 0x9e3779b97f4a7c15u >> 56];

	if (kernel->at.device >= pfw_cupti_lib.device_count || !threads || threads > 1024 ||
	    pfw_cupti_lib.device[kernel->at.device].threads < 1 ||
	    pfw_cupti_lib.device[kernel->at.device].sms < 1)
		return false;
	if (known->shape != shape || known->grid != grid) {
		known->shape = shape;
		known->grid = grid;
		known->occupancy =
			compute(&pfw_cupti_lib.device[kernel->at.device], kernel, threads);
	}
	*occupancy = known->occupancy;
	return true;
}
