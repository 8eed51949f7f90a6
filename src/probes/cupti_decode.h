/* cupti_decode.h - one of CUPTI's records to one of ours. */
#ifndef PFW_CUPTI_DECODE_H
#define PFW_CUPTI_DECODE_H

#include <stdint.h>

#include "../record.h"

/* How it is done; set before the first record. */
struct pfw_cupti_decoding {
	int64_t clock_offset_ns; /* of CUPTI's times to ours; nearly always 0 */
	uint64_t now_ns;	 /* for what has no time of its own */
	uint16_t template;	 /* of PP records */
};
extern struct pfw_cupti_decoding pfw_cupti_decoding;

/* The PP record that says the same, *slots long, good until the next call.  NULL: it makes no line
 * (what it said was noted before, or it is noise).  Thread: drain. */
const struct pfw_record *pfw_cupti_decode(const void *record, unsigned *slots);

#endif
