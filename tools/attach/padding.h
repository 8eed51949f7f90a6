/* attach/padding.h - what lies unused behind the code and the data of loaded libraries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/attach.h"

struct tracee;

/* Places of one object, up to the end of a page; 0 bytes = none. */
struct padding {
	uint64_t code, code_bytes; /* in a page that can be run */
	uint64_t data, data_bytes; /* in one that can be written */
	bool stays;		   /* the process never unloads the object */
};

#define PADDING_LENDER 128u /* behind data, for struct stub_lender */

#define PADDINGS_MAX 512u

/* Find at most PADDINGS_MAX of them; returns how many. */
size_t padding_list(const struct tracee *tracee, struct padding *out);

/*
 * Name the jumps that earlier attachments have laid, and lay new ones where there is room.  `without`:
 * a place of code that is not to be used.  What there is not room for, the recorder makes a mapping for.
 */
void padding_lay_thunks(const struct tracee *tracee, struct pfw_attach_block *block,
			uint64_t without);
