/* common/settings/kinds.h - parsers of the kinds of values in config.def. */
#pragma once

enum pfw_parsed {
	PFW_PARSED,
	PFW_PARSED_BAD,
	PFW_PARSED_NO_EFFECT, /* accepted, but the default holds: say so */
};

/* Check `text` and store its value in the field `out` of struct pfw_config, unless it is bad.
 * Thread: any.  Signal: safe. */
typedef enum pfw_parsed pfw_parse(const char *text, void *out);

pfw_parse pfw_parse_flag, pfw_parse_text, pfw_parse_init, pfw_parse_on_full, pfw_parse_time_metric,
	pfw_parse_log_level, pfw_parse_ring_bytes, pfw_parse_buffer_bytes, pfw_parse_max_bytes,
	pfw_parse_flush_ms, pfw_parse_duration, pfw_parse_interval, pfw_parse_rank, pfw_parse_ranks,
	pfw_parse_name, pfw_parse_gpu, pfw_parse_schedule, pfw_parse_keep, pfw_parse_dump_on,
	pfw_parse_stack;
