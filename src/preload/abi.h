/* preload/abi.h - identifies a build: preload object and recorder must have the same text. */
#pragma once

/* The version and the names of all rows. */
#define PFW_ABI_VERSION "pfw 0.1.0 table 2:"
static const char pfw_abi[] = PFW_ABI_VERSION
#define CALL_ANY(category, ret, name, ...) #name " "
#include "common/calls/calls.def"
	;
