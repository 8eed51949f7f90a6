/* recorder/stack/modules.h - which program file an address belongs to. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recorder/stack/cfi.h"

struct pfw_module {
	struct pfw_cfi cfi;
	uint64_t link_map; /* libc's struct, or one of ours that begins in the same way */
	uint64_t stamp;	   /* of all these: another module at the same place has another one */
	int number;	   /* in the spool; -1 = none */
	bool ours;	   /* it is the recorder */
};

/* Find out how to look modules up: libc's lock-free search (glibc 2.35), or a list made now, which
 * then lacks what is loaded later.  Thread: init. */
void pfw_modules_init(void);

/* The module of an address, without `number` and `ours`.  Thread: app.  Signal: safe. */
bool pfw_module_find(struct pfw_module *module, uint64_t address);

/* Find out these two; reads a new module's path and build id.  Thread: app.  Signal: safe. */
void pfw_module_enter(struct pfw_module *module);

/* The frame at an address of an entered module.  Thread: app.  Signal: safe. */
uint64_t pfw_module_frame(const struct pfw_module *module, uint64_t address);
