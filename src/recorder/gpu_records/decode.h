/* recorder/gpu_records/decode.h - converts one of CUPTI's records to one of ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/format/record.h"

/* Settings of the conversion, set before the first record. */
struct pfw_cupti_decoding {
	int64_t clock_offset_ns; /* our clock minus CUPTI's; nearly always 0 */
	uint64_t now_ns;	 /* the time of events that have none */
	uint16_t template;	 /* of PP records */
	bool driver;		 /* all calls of the driver are wanted, not only launches */
};
extern struct pfw_cupti_decoding pfw_cupti_decoding;

/*
 * The PP record of a CUPTI record, *slots long, valid until the next call.  NULL: the record makes
 * no line, because the first reading has kept its content or because it is noise.  Thread: drain.
 */
const struct pfw_record *pfw_cupti_decode(const void *record, unsigned *slots);
