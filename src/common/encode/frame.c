/* common/encode/frame.c - ready texts of the frame, and the tracer's own lines; see frame.h. */
#include "common/encode/frame.h"

#include <string.h>

/* ---- what repeats from line to line ---- */

uint64_t pfw_json_epoch_ns(struct pfw_json *json, uint64_t ticks)
{
	struct pfw_clock_line *line = &json->cache->clock;

	pfw_clock_map_line(json->clock, ticks, line);
	return pfw_clock_line_ns(line, ticks);
}

bool pfw_json_new_ms(struct pfw_json_cache *cache, uint64_t ns)
{
	uint64_t ms = ns / PFW_JSON_MS;
	char *end = pfw_append_u64(cache->ms_text, ms);

	cache->ms_ns = ms ? ms * PFW_JSON_MS : PFW_JSON_NO_MS;
	cache->ms_bytes = (uint64_t)(end - cache->ms_text);
	return ms != 0;
}

void pfw_json_new_tid(struct pfw_json_cache *cache, uint64_t tid)
{
	char *end = pfw_append(pfw_append_u64(cache->tid_text, tid), ",\"ts\":");

	cache->tid = tid;
	cache->tid_bytes = (uint64_t)(end - cache->tid_text);
}

void pfw_json_new_id(struct pfw_json *json)
{
	struct pfw_json_cache *cache = json->cache;
	char *out = pfw_append(cache->id_text, "{\"id\":");

	cache->id = json->next_id;
	cache->id_bytes = (uint64_t)(pfw_append_u64(out, cache->id) - cache->id_text);
}

/* ---- the tracer's own lines ---- */

char *pfw_json_begin(struct pfw_json *json, char *out, const char *name, const char *ph,
		     uint64_t tid, uint64_t epoch_ns)
{
	struct pfw_json_times times;

	epoch_ns = pfw_json_least(epoch_ns, INT64_MAX);
	times = (struct pfw_json_times){ epoch_ns, epoch_ns, false };
	json->cache->own_is_event = *ph != 'M';
	pfw_json_count_times(json, &times);
	out = pfw_append(pfw_json_put_id(json, out), ",\"name\":");
	out = pfw_json_string(out, name, strlen(name), NULL);
	out = pfw_append(out, ",\"cat\":\"pfw\",\"pid\":");
	out = pfw_append_u64(out, json->pid);
	out = pfw_append(out, ",\"tid\":");
	out = pfw_append_u64(out, json->disable_tids ? json->pid : tid);
	out = pfw_json_put_ts(json, pfw_append(out, ",\"ts\":"), epoch_ns);
	out = pfw_append(out, ",\"ph\":");
	out = pfw_json_string(out, ph, strlen(ph), NULL);
	return pfw_append(out, ",\"args\":{");
}

char *pfw_json_end(struct pfw_json *json, char *out)
{
	json->next_id++;
	json->events += json->cache->own_is_event;
	return pfw_append(out, "}}\n");
}

static char *put_own_key(char *out, const char *key)
{
	out = pfw_json_string(pfw_json_put_comma(out), key, strlen(key), NULL);
	*out++ = ':';
	return out;
}

char *pfw_json_key_u64(char *out, const char *key, uint64_t value)
{
	return pfw_append_u64(put_own_key(out, key), value);
}

char *pfw_json_key_i64(char *out, const char *key, int64_t value)
{
	return pfw_append_i64(put_own_key(out, key), value);
}

char *pfw_json_key_str(char *out, const char *key, const char *text, size_t bytes)
{
	return pfw_json_string(put_own_key(out, key), text, bytes, NULL);
}

char *pfw_json_key_fname(char *out, const char *text, size_t bytes)
{
	bool valid = true;

	out = put_own_key(out, "fname");
	if (!text)
		return pfw_append(out, "null");
	out = pfw_json_string(out, text, bytes, &valid);
	return valid ? out : pfw_append_base64(put_own_key(out, "fname_b64"), text, bytes);
}

char *pfw_json_key_us(char *out, const char *key, uint64_t ns)
{
	return pfw_append_us(put_own_key(out, key), ns);
}
