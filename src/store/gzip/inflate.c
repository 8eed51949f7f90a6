/* store/gzip/inflate.c - inflates gzip members and deflate streams; see inflate.h. */
#include "store/gzip/inflate.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#if PFW_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif

#define TRAILER_BYTES 8u

struct pfw_inflate {
	bool raw; /* resumed inside a member: no header, no check */
	bool begun;
	const char *why; /* zlib's message; NULL: no error yet */
	unsigned trailer;
	z_stream z;
	bool z_made;
#if PFW_HAVE_ISAL
	bool isal; /* ISA-L is used instead of z */
	struct inflate_state state;
#endif
};

/* ---- ISA-L ---- */

#if PFW_HAVE_ISAL

/* An amount of input that ends inside the header of a deflate block that begins in it. gzip writes
 * no shorter header; if another writer does, the next block border is used. */
#define BORDER_STEP 16u

static struct {
	pthread_once_t once;
	void (*reset)(struct inflate_state *state);
	void (*init)(struct inflate_state *state);
	int (*set_dict)(struct inflate_state *state, uint8_t *dict, uint32_t bytes);
	int (*inflate)(struct inflate_state *state);
} isal = { .once = PTHREAD_ONCE_INIT };

static void find_isal(void)
{
	void *handle = dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return;
	*(void **)&isal.init = dlsym(handle, "isal_inflate_init");
	*(void **)&isal.reset = dlsym(handle, "isal_inflate_reset");
	*(void **)&isal.set_dict = dlsym(handle, "isal_inflate_set_dict");
	*(void **)&isal.inflate = dlsym(handle, "isal_inflate");
}

static bool have_isal(void)
{
	pthread_once(&isal.once, find_isal);
	return isal.init && isal.reset && isal.set_dict && isal.inflate;
}

static const char *isal_why(int result)
{
	switch (result) {
	case ISAL_INCORRECT_CHECKSUM:
		return "incorrect data check";
	case ISAL_INVALID_WRAPPER:
		return "incorrect header check";
	case ISAL_UNSUPPORTED_METHOD:
		return "unknown compression method";
	case ISAL_INVALID_LOOKBACK:
		return "invalid distance too far back";
	case ISAL_INVALID_SYMBOL:
		return "invalid code";
	default:
		return "invalid block";
	}
}

static void isal_begin(struct pfw_inflate *inflate)
{
	isal.reset(&inflate->state);
	inflate->state.crc_flag = inflate->raw ? ISAL_DEFLATE : ISAL_GZIP;
}

/* One call with at most `in_bytes` of input; the library's result. */
static int isal_call(struct pfw_inflate *inflate, struct pfw_inflate_io *io, size_t in_bytes)
{
	struct inflate_state *state = &inflate->state;
	int result;

	state->next_in = (uint8_t *)io->in;
	state->avail_in = (uint32_t)(in_bytes > UINT32_MAX / 2 ? UINT32_MAX / 2 : in_bytes);
	state->next_out = io->out;
	state->avail_out =
		(uint32_t)(io->out_bytes > UINT32_MAX / 2 ? UINT32_MAX / 2 : io->out_bytes);
	result = isal.inflate(state);
	io->in_bytes -= (size_t)(state->next_in - io->in);
	io->in = state->next_in;
	inflate->begun |= state->next_out != io->out;
	io->out_bytes -= (size_t)(state->next_out - io->out);
	io->out = state->next_out;
	return result;
}

static enum pfw_inflate_result isal_step(struct pfw_inflate *inflate, struct pfw_inflate_io *io)
{
	struct inflate_state *state = &inflate->state;

	do {
		bool in_header = state->block_state == ISAL_BLOCK_HDR;
		size_t in_bytes = io->stop && io->in_bytes > BORDER_STEP ? BORDER_STEP
									 : io->in_bytes;
		int result = isal_call(inflate, io, in_bytes);

		if (result < 0 || result == ISAL_NEED_DICT) {
			inflate->why = isal_why(result);
			return PFW_INFLATE_BAD;
		}
		if (state->block_state == ISAL_BLOCK_FINISH) {
			unsigned held = (unsigned)state->read_in_length / 8;

			inflate->trailer = held < TRAILER_BYTES ? TRAILER_BYTES - held : 0;
			return PFW_INFLATE_END;
		}
		/* ISA-L keeps an incomplete header until more input comes. */
		if (io->stop && !in_header && inflate->begun &&
		    state->block_state == ISAL_BLOCK_HDR && !state->bfinal) {
			io->stopped = true;
			io->bits_back =
				(unsigned)state->tmp_in_size * 8 + (unsigned)state->read_in_length;
			return PFW_INFLATE_MORE;
		}
	} while (io->stop && io->in_bytes && io->out_bytes);
	return PFW_INFLATE_MORE;
}

static int isal_resume(struct pfw_inflate *inflate, unsigned bits, unsigned char byte,
		       const void *window, size_t window_bytes)
{
	isal_begin(inflate);
	if (window_bytes &&
	    isal.set_dict(&inflate->state, (uint8_t *)window, (uint32_t)window_bytes))
		return -ENOMEM;
	inflate->state.read_in = (uint64_t)byte >> (8 - bits);
	inflate->state.read_in_length = (int32_t)bits;
	return 0;
}

#endif

/* ---- zlib ---- */

static int zlib_begin(struct pfw_inflate *inflate)
{
	int bits = inflate->raw ? -MAX_WBITS : 16 + MAX_WBITS;

	if (inflate->z_made)
		return inflateReset2(&inflate->z, bits) == Z_OK ? 0 : -ENOMEM;
	if (inflateInit2(&inflate->z, bits) != Z_OK)
		return -ENOMEM;
	inflate->z_made = true;
	return 0;
}

static enum pfw_inflate_result zlib_step(struct pfw_inflate *me, struct pfw_inflate_io *io)
{
	z_stream *z = &me->z;
	int result;

	z->next_in = (unsigned char *)io->in;
	z->avail_in = (uInt)(io->in_bytes > UINT32_MAX / 2 ? UINT32_MAX / 2 : io->in_bytes);
	z->next_out = io->out;
	z->avail_out = (uInt)(io->out_bytes > UINT32_MAX / 2 ? UINT32_MAX / 2 : io->out_bytes);
	result = inflate(z, io->stop ? Z_BLOCK : Z_NO_FLUSH);
	io->in_bytes -= (size_t)(z->next_in - io->in);
	io->in = z->next_in;
	me->begun |= z->next_out != io->out;
	io->out_bytes -= (size_t)(z->next_out - io->out);
	io->out = z->next_out;
	if (result == Z_MEM_ERROR)
		return PFW_INFLATE_FULL;
	if (result == Z_STREAM_END) {
		me->trailer = TRAILER_BYTES;
		return PFW_INFLATE_END;
	}
	if (result != Z_OK && result != Z_BUF_ERROR) {
		me->why = z->msg ? z->msg : "not deflate data";
		return PFW_INFLATE_BAD;
	}
	/* 128: at a block border; 64: inside the last block. */
	if (io->stop && (z->data_type & (128 | 64)) == 128 && me->begun) {
		io->stopped = true;
		io->bits_back = (unsigned)z->data_type & 7;
	}
	return PFW_INFLATE_MORE;
}

static int zlib_resume(struct pfw_inflate *inflate, unsigned bits, unsigned char byte,
		       const void *window, size_t window_bytes)
{
	int error = zlib_begin(inflate);

	if (error)
		return error;
	if (bits)
		inflatePrime(&inflate->z, (int)bits, byte >> (8 - bits));
	if (window_bytes)
		inflateSetDictionary(&inflate->z, window, (uInt)window_bytes);
	return 0;
}

/* ---- both ---- */

struct pfw_inflate *pfw_inflate_new(void)
{
	struct pfw_inflate *inflate = calloc(1, sizeof(*inflate));

	if (!inflate)
		return NULL;
#if PFW_HAVE_ISAL
	inflate->isal = have_isal();
	if (inflate->isal) {
		isal.init(&inflate->state);
		return inflate;
	}
#endif
	if (zlib_begin(inflate)) {
		free(inflate);
		return NULL;
	}
	return inflate;
}

void pfw_inflate_free(struct pfw_inflate *inflate)
{
	if (inflate && inflate->z_made)
		inflateEnd(&inflate->z);
	free(inflate);
}

bool pfw_inflate_is_isal(const struct pfw_inflate *inflate)
{
#if PFW_HAVE_ISAL
	return inflate->isal;
#else
	(void)inflate;
	return false;
#endif
}

static void begin(struct pfw_inflate *inflate, bool raw)
{
	inflate->raw = raw;
	inflate->begun = raw;
	inflate->why = NULL;
	inflate->trailer = 0;
}

void pfw_inflate_member(struct pfw_inflate *inflate)
{
	begin(inflate, false);
#if PFW_HAVE_ISAL
	if (inflate->isal) {
		isal_begin(inflate);
		return;
	}
#endif
	zlib_begin(inflate);
}

int pfw_inflate_resume(struct pfw_inflate *inflate, unsigned bits, unsigned char byte,
		       const void *window, size_t window_bytes)
{
	begin(inflate, true);
#if PFW_HAVE_ISAL
	if (inflate->isal)
		return isal_resume(inflate, bits, byte, window, window_bytes);
#endif
	return zlib_resume(inflate, bits, byte, window, window_bytes);
}

enum pfw_inflate_result pfw_inflate_step(struct pfw_inflate *inflate, struct pfw_inflate_io *io)
{
	io->stopped = false;
	if (inflate->why) /* ISA-L must not be called again */
		return PFW_INFLATE_BAD;
#if PFW_HAVE_ISAL
	if (inflate->isal)
		return isal_step(inflate, io);
#endif
	return zlib_step(inflate, io);
}

const char *pfw_inflate_why(const struct pfw_inflate *inflate)
{
	return inflate->why;
}

bool pfw_inflate_begun(const struct pfw_inflate *inflate)
{
	return inflate->begun;
}

unsigned pfw_inflate_trailer(const struct pfw_inflate *inflate)
{
	return inflate->raw ? inflate->trailer : 0;
}
