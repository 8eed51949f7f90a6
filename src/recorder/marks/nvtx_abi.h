/* recorder/marks/nvtx_abi.h - the tool interface of NVTX 3, as far as the recorder uses it.
 *
 * Written from the interface's documentation, so that the build needs no header of NVIDIA's.
 * tests/gpu/nvtx_target.c compares it with NVIDIA's header.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* Attributes of a range or a mark since version 2; later versions append members. */
struct pfw_nvtx_attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
		uint32_t u32;
		int32_t i32;
		float f32;
	} payload;
	int32_t message_type;
	union {
		const char *text;
		const wchar_t *wide;
		const void *registered;
	} message;
};

enum { PFW_NVTX_COLOR_ARGB = 1 };

enum { PFW_NVTX_MESSAGE_TEXT = 1, PFW_NVTX_MESSAGE_WIDE, PFW_NVTX_MESSAGE_REGISTERED };

enum {
	PFW_NVTX_PAYLOAD_U64 = 1,
	PFW_NVTX_PAYLOAD_I64,
	PFW_NVTX_PAYLOAD_F64,
	PFW_NVTX_PAYLOAD_U32,
	PFW_NVTX_PAYLOAD_I32,
	PFW_NVTX_PAYLOAD_F32,
};

/* ---- the tables of functions ---- */

typedef void pfw_nvtx_function(void);

enum { PFW_NVTX_TABLE_CALLBACKS = 1 }; /* argument of the export function */
enum { PFW_NVTX_CORE = 1, PFW_NVTX_CUDA, PFW_NVTX_CUDART = 4, PFW_NVTX_CORE2 }; /* modules */

struct pfw_nvtx_callbacks {
	size_t struct_bytes;
	/* *table gets an array of *count pointers to function addresses. */
	int (*module)(int module, pfw_nvtx_function ****table, unsigned *count);
};

typedef const void *pfw_nvtx_export(uint32_t table);

/* Indices in the tables of the modules CORE, CUDA, CUDART and CORE2. */
enum {
	PFW_NVTX_MarkEx = 1,
	PFW_NVTX_MarkA,
	PFW_NVTX_MarkW,
	PFW_NVTX_RangeStartEx,
	PFW_NVTX_RangeStartA,
	PFW_NVTX_RangeStartW,
	PFW_NVTX_RangeEnd,
	PFW_NVTX_RangePushEx,
	PFW_NVTX_RangePushA,
	PFW_NVTX_RangePushW,
	PFW_NVTX_RangePop,
	PFW_NVTX_NameCategoryA,
	PFW_NVTX_NameCategoryW,
	PFW_NVTX_NameOsThreadA,
	PFW_NVTX_NameOsThreadW,
};

enum {
	PFW_NVTX_NameCuDeviceA = 1,
	PFW_NVTX_NameCuDeviceW,
	PFW_NVTX_NameCuContextA,
	PFW_NVTX_NameCuContextW,
	PFW_NVTX_NameCuStreamA,
	PFW_NVTX_NameCuStreamW,
};

enum {
	PFW_NVTX_NameCudaDeviceA = 1,
	PFW_NVTX_NameCudaDeviceW,
	PFW_NVTX_NameCudaStreamA,
	PFW_NVTX_NameCudaStreamW,
};

enum {
	PFW_NVTX_DomainMarkEx = 1,
	PFW_NVTX_DomainRangeStartEx,
	PFW_NVTX_DomainRangeEnd,
	PFW_NVTX_DomainRangePushEx,
	PFW_NVTX_DomainRangePop,
	PFW_NVTX_DomainNameCategoryA = 8,
	PFW_NVTX_DomainNameCategoryW,
	PFW_NVTX_DomainRegisterStringA,
	PFW_NVTX_DomainRegisterStringW,
	PFW_NVTX_DomainCreateA,
	PFW_NVTX_DomainCreateW,
};
