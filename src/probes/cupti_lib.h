/* cupti_lib.h - the driver and the libcupti of this process: found, and asked nothing too early.
 *
 * CUPTI without a driver answers with errors, or (13.2) with a SIGSEGV, so nothing of it is called, nor
 * loaded, before the program itself has initialised the driver and that has found a device.
 */
#ifndef PFW_CUPTI_LIB_H
#define PFW_CUPTI_LIB_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"

#define PFW_CUDA_DEVICES 64

struct pfw_cuda_device {
#define X(name, member, number) int member;
	PFW_CUDA_ATTRIBUTES(X)
#undef X
};

struct pfw_cupti_lib {
	struct pfw_cupti_calls calls;
	uint32_t version; /* enum in cupti_abi.h; 0 = not asked yet */
	bool shares;	  /* it has all of PFW_CUPTI_SHARED_CALLS */
	void *subscriber; /* us, where there are several; NULL: the calls of one client are used */
	const char *path; /* of the library, for messages */
	int driver;	  /* the CUDA version that the driver speaks: 13000 */
	unsigned device_count;
	struct pfw_cuda_device device[PFW_CUDA_DEVICES];
};
extern struct pfw_cupti_lib pfw_cupti_lib;

enum pfw_cuda_state {
	PFW_CUDA_ABSENT,  /* no libcuda in this process */
	PFW_CUDA_WAITING, /* it is there, and the program has not initialised it */
	PFW_CUDA_READY,	  /* there is a device: device[] is filled */
	PFW_CUDA_USELESS, /* no device, or no driver behind the library */
};

/* Look, without initialising anything.  *error gets the driver's answer where it is USELESS.
 * Thread: any.  Signal: unsafe (asks the dynamic linker). */
enum pfw_cuda_state pfw_cuda_look(int *error);

/*
 * Load libcupti: `chosen` where it is not NULL, else the one that is in the process already, else one
 * that fits the driver.  Only when PFW_CUDA_READY.  0; -ENOENT: there is none; -ELIBBAD: it lacks a
 * call of 12.0 (lib->path says which library).  Thread: any.  Signal: unsafe (dlopen).
 */
int pfw_cupti_load(const char *chosen);

/*
 * Around what asks the dynamic linker for long, so that no thread forks meanwhile: the child would find
 * it locked for ever.  False after a second: the thread that has it may wait for the calling one.
 */
bool pfw_cupti_lib_lock(void);
void pfw_cupti_lib_unlock(void);

#endif
