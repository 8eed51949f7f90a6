/* trace_files.h - files for tests of what reads traces: a directory of their own, members. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "common/format/gzip.h"

#if defined(__SANITIZE_THREAD__)
#define SHADOW 5
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHADOW 5
#endif
#endif
#ifndef SHADOW
#define SHADOW 1 /* bytes of memory for one that is used: ThreadSanitizer keeps four more */
#endif

#define OURS                                                                         \
	"{\"id\":12,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":8978,\"tid\":8979," \
	"\"ts\":1795230878627639.123,\"dur\":0.412,\"ph\":\"X\",\"args\":{\"fd\":3}}"

struct fixture {
	char directory[64];
	char path[96];
};

static inline int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	strcpy(fixture->directory, "/tmp/test_traces-XXXXXX");
	*state = fixture;
	if (!mkdtemp(fixture->directory))
		return -1;
	snprintf(fixture->path, sizeof(fixture->path), "%s/t.pfw", fixture->directory);
	return 0;
}

static inline int tear_down(void **state)
{
	struct fixture *fixture = *state;
	char command[128];
	int status;

	snprintf(command, sizeof(command), "rm -rf %s", fixture->directory);
	status = system(command);
	free(fixture);
	return status;
}

static inline void write_file(const char *path, const void *bytes, size_t count)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

/* One gzip member; with `lines` > 0 it has the extra field of ours. */
static inline size_t member(unsigned char *out, size_t room, const char *text, size_t bytes,
			    uint32_t lines)
{
	/* As members were before they had a CRC of their header. */
	unsigned char extra[4 + PFW_GZIP_FIGURES_BYTES] = { 'P', 'F', PFW_GZIP_FIGURES_BYTES, 0 };
	gz_header header = { .extra = extra, .extra_len = sizeof(extra), .os = 255 };
	z_stream z = { 0 };
	size_t made;

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	if (lines)
		deflateSetHeader(&z, &header);
	z.next_in = (unsigned char *)text;
	z.avail_in = (unsigned)bytes;
	z.next_out = out;
	z.avail_out = (unsigned)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	made = room - z.avail_out;
	deflateEnd(&z);
	if (lines) {
		for (int i = 0; i < 4; i++) {
			out[16 + i] = (unsigned char)(made >> 8 * i);
			out[20 + i] = (unsigned char)(lines >> 8 * i);
		}
		memset(out + 32, 0xff, 7); /* at some time from 0 to the end of all times */
		out[39] = 0x7f;
	}
	return made;
}
