/* preload_abi.h - the text by which the preload object and the recorder know that they fit. */
#ifndef PFW_PRELOAD_ABI_H
#define PFW_PRELOAD_ABI_H

/* The version and every row: two builds that differ in either do not go together. */
#define PFW_ABI_VERSION "pfw 0.1.0 table 1:"
static const char pfw_abi[] = PFW_ABI_VERSION
#define CALL_FD(category, ret, name, ...) #name " "
#define CALL_PATH(category, ret, name, ...) #name " "
#define CALL_STREAM(category, ret, name, ...) #name " "
#define CALL_BY_HAND(category, ret, name, ...) #name " "
#include "probes/calls.def"
	;

#endif
