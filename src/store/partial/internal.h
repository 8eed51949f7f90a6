/* store/partial/internal.h - the bytes of a partial; private to the room. */
#pragma once

/* Documented in docs/index_format.rst; all numbers with the lowest byte first. */
#define PFW_PARTIAL_MAGIC "PFWPART1"
#define PFW_PARTIAL_MAGIC_BYTES 8u
#define PFW_PARTIAL_HEADER 24u /* magic, units, bytes of the file */
#define PFW_PARTIAL_UNIT 24u   /* the members of struct pfw_partial_unit after `at` */
