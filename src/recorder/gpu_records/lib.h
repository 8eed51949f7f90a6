/* recorder/gpu_records/lib.h - finds and loads the driver and the libcupti of this process.
 *
 * CUPTI without a driver returns errors or (13.2) crashes.  So CUPTI is neither loaded nor called
 * before the program itself has initialised the driver and the driver has found a device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recorder/gpu_records/abi.h"

#define PFW_CUDA_DEVICES 64

struct pfw_cuda_device {
#define X(name, member, number) int member;
	PFW_CUDA_ATTRIBUTES(X)
#undef X
};

struct pfw_cupti_lib {
	struct pfw_cupti_calls calls;
	uint32_t version; /* enum in abi.h; 0 = not known yet */
	bool shares;	  /* the library has all of PFW_CUPTI_SHARED_CALLS */
	/* our subscription among several; NULL: the calls for a single client are used */
	void *subscriber;
	const char *path; /* the library's, for messages */
	int driver;	  /* the CUDA version of the driver: 13000 */
	unsigned device_count;
	struct pfw_cuda_device device[PFW_CUDA_DEVICES];
};
extern struct pfw_cupti_lib pfw_cupti_lib;

enum pfw_cuda_state {
	PFW_CUDA_ABSENT,  /* the process has no libcuda */
	PFW_CUDA_WAITING, /* libcuda is loaded but not initialised by the program */
	PFW_CUDA_READY,	  /* there is a device: device[] is filled */
	PFW_CUDA_USELESS, /* no device, or no kernel driver for the library */
};

/* Whether the program has loaded the driver. */
bool pfw_cuda_loaded(void);

/* Look at the driver without initialising anything.  *error gets the driver's result if the state
 * is USELESS.  Thread: any.  Signal: unsafe (uses the dynamic linker). */
enum pfw_cuda_state pfw_cuda_look(int *error);

/*
 * Load libcupti: `chosen` if it is not NULL; else the one that the process has loaded; else one
 * that fits the driver.  Only if PFW_CUDA_READY.  Return 0; -ENOENT if there is none; -ELIBBAD if
 * it lacks a call of 12.0 (lib->path names the library).  Thread: any.  Signal: unsafe (dlopen).
 */
int pfw_cupti_load(const char *chosen);

/* The same with the libcupti that the process has loaded; also before PFW_CUDA_READY. */
int pfw_cupti_load_present(void);

/*
 * Guard long work in the dynamic linker, so that no thread forks meanwhile: the child would inherit
 * the linker's lock for ever.  False after one second: the holder may itself wait for the calling
 * thread.
 */
bool pfw_cupti_lib_lock(void);
void pfw_cupti_lib_unlock(void);
