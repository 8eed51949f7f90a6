/* read/arrow.c - hands columns over by Arrow's C data interface; see arrow.h.
 *
 * A consumer may move children and dictionaries out of their parent and release them later, in any
 * thread: each owns its own memory.
 */
#include "read/arrow.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- schemas ---- */

/* Names and formats are constants. */
static void release_schema(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++) {
		if (schema->children[i] && schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
		free(schema->children[i]);
	}
	free(schema->children);
	if (schema->dictionary && schema->dictionary->release)
		schema->dictionary->release(schema->dictionary);
	free(schema->dictionary);
	free(schema->private_data);
	schema->release = NULL;
}

static void set_schema(struct ArrowSchema *schema, const char *name, const char *format)
{
	*schema = (struct ArrowSchema){ .format = format,
					.name = name,
					.flags = ARROW_FLAG_NULLABLE,
					.release = release_schema };
}

/* Room for children, none of which is there yet. */
static bool get_children(struct ArrowSchema *schema, int64_t count)
{
	schema->children = calloc((size_t)count, sizeof(*schema->children));
	schema->n_children = schema->children ? count : 0;
	return schema->children;
}

static struct ArrowSchema *new_schema(const char *name, const char *format)
{
	struct ArrowSchema *schema = malloc(sizeof(*schema));

	if (schema)
		set_schema(schema, name, format);
	return schema;
}

static struct ArrowSchema *column_schema(const struct pfw_read_known *known)
{
	static const char *const formats[] = { "l", "g", "i", "i", "+w:3", "u", "b" };
	struct ArrowSchema *schema = new_schema(known->name, formats[known->kind]);
	bool made = schema;

	if (made && pfw_read_has_texts(known->kind))
		made = (schema->dictionary = new_schema("", "u")) != NULL;
	else if (made && known->kind == PFW_READ_DIM3)
		made = get_children(schema, 1) && (schema->children[0] = new_schema("item", "i"));
	if (made || !schema)
		return schema;
	release_schema(schema);
	free(schema);
	return NULL;
}

/* One pair, as Arrow codes them: numbers of four bytes of this machine. */
static char *new_metadata(void)
{
	static const char *const texts[] = { "pfw.schema", PFW_READ_SCHEMA };
	char *metadata = malloc(64), *at = metadata;
	int32_t number = 1;

	if (!metadata)
		return NULL;
	memcpy(at, &number, sizeof(number));
	at += sizeof(number);
	for (unsigned i = 0; i < 2; i++) {
		number = (int32_t)strlen(texts[i]);
		memcpy(at, &number, sizeof(number));
		memcpy(at + sizeof(number), texts[i], (size_t)number);
		at += sizeof(number) + (size_t)number;
	}
	return metadata;
}

int pfw_read_arrow_schema(struct ArrowSchema *out, const struct pfw_read_columns *columns)
{
	bool made;

	set_schema(out, "", "+s");
	out->flags = 0;
	out->metadata = out->private_data = new_metadata();
	made = out->metadata && get_children(out, columns->count);
	for (unsigned i = 0; i < columns->count && made; i++)
		made = (out->children[i] = column_schema(&columns->known[columns->column[i]])) !=
		       NULL;
	if (made)
		return 0;
	release_schema(out);
	return -ENOMEM;
}

/* ---- zeros ---- */

struct pfw_read_zeros {
	_Atomic size_t users;
	size_t bytes;
	_Alignas(64) char zero[];
};

void pfw_read_zeros_drop(struct pfw_read_zeros *zeros)
{
	if (zeros && atomic_fetch_sub(&zeros->users, 1) == 1)
		free(zeros);
}

/* Provide at least `bytes` zeros.  Batches that hold an older, shorter block keep it. */
static bool get_zeros(struct pfw_read_zeros **zeros, size_t bytes)
{
	size_t all = (sizeof(**zeros) + bytes + 63) / 64 * 64;
	struct pfw_read_zeros *more;

	if (*zeros && (*zeros)->bytes >= bytes)
		return true;
	more = aligned_alloc(64, all);
	if (!more)
		return false;
	memset(more, 0, all);
	more->bytes = bytes;
	atomic_init(&more->users, 1);
	pfw_read_zeros_drop(*zeros);
	*zeros = more;
	return true;
}

/* ---- arrays ---- */

/* What an array owns. */
struct holder {
	const void *buffer[3];
	void *value; /* from pfw_read_memory_get() */
	void *memory[3];
	struct pfw_read_zeros *zeros;
};

static void release_array(struct ArrowArray *array)
{
	struct holder *holder = array->private_data;

	for (int64_t i = 0; i < array->n_children; i++) {
		if (array->children[i] && array->children[i]->release)
			array->children[i]->release(array->children[i]);
		free(array->children[i]);
	}
	free(array->children);
	if (array->dictionary && array->dictionary->release)
		array->dictionary->release(array->dictionary);
	free(array->dictionary);
	pfw_read_memory_put(holder->value);
	for (unsigned i = 0; i < 3; i++)
		free(holder->memory[i]);
	pfw_read_zeros_drop(holder->zeros);
	free(holder);
	array->release = NULL;
}

/* Return the array's holder, which owns nothing yet.  NULL: no memory, do not release *array. */
static struct holder *set_array(struct ArrowArray *array, size_t length, unsigned buffers)
{
	struct holder *holder = calloc(1, sizeof(*holder));

	*array = (struct ArrowArray){ .length = (int64_t)length,
				      .n_buffers = buffers,
				      .buffers = holder ? holder->buffer : NULL,
				      .release = holder ? release_array : NULL,
				      .private_data = holder };
	return holder;
}

static struct ArrowArray *new_array(size_t length, unsigned buffers, struct holder **holder)
{
	struct ArrowArray *array = malloc(sizeof(*array));

	*holder = array ? set_array(array, length, buffers) : NULL;
	if (*holder)
		return array;
	free(array);
	return NULL;
}

static bool get_array_children(struct ArrowArray *array, int64_t count)
{
	array->children = calloc((size_t)count, sizeof(*array->children));
	array->n_children = array->children ? count : 0;
	return array->children;
}

/* A buffer of zeros. */
static const void *hold_zeros(struct holder *holder, struct pfw_read_zeros *zeros)
{
	if (!holder->zeros)
		atomic_fetch_add(&zeros->users, 1);
	holder->zeros = zeros;
	return zeros->zero;
}

static int64_t count_nulls(const uint8_t *valid, size_t rows)
{
	int64_t nulls = (int64_t)rows;

	for (; rows >= 64; rows -= 64, valid += 8) {
		uint64_t word;

		memcpy(&word, valid, sizeof(word));
		nulls -= __builtin_popcountll(word);
	}
	for (size_t i = 0; i < (rows + 7) / 8; i++)
		nulls -= __builtin_popcount(valid[i]);
	return nulls;
}

/* The texts of a dictionary, or of args_json, in the buffers behind `valid`. */
static void hold_texts(struct holder *holder, struct pfw_read_cells *cells,
		       struct pfw_read_zeros *zeros)
{
	holder->buffer[1] = holder->memory[1] = cells->offset;
	holder->buffer[2] = holder->memory[2] = cells->text;
	cells->offset = NULL;
	cells->text = NULL;
	for (unsigned i = 1; i < 3; i++) {
		if (!holder->buffer[i])
			holder->buffer[i] = hold_zeros(holder, zeros);
	}
}

static bool add_dictionary(struct ArrowArray *array, struct pfw_read_cells *cells,
			   struct pfw_read_zeros *zeros)
{
	struct holder *holder;

	array->dictionary = new_array(cells->texts, 3, &holder);
	if (array->dictionary)
		hold_texts(holder, cells, zeros);
	return array->dictionary;
}

/* The numbers of a column of threes. */
static bool add_item(struct ArrowArray *array, struct pfw_read_cells *cells,
		     struct pfw_read_zeros *zeros)
{
	struct holder *holder;

	if (!get_array_children(array, 1))
		return false;
	array->children[0] = new_array(3 * (size_t)array->length, 2, &holder);
	if (!array->children[0])
		return false;
	holder->value = cells->value;
	holder->buffer[1] = cells->value ? cells->value : hold_zeros(holder, zeros);
	return true;
}

/* Arrow has a bit for each flag. */
static bool hold_flags(struct holder *holder, const struct pfw_read_cells *cells, size_t rows,
		       struct pfw_read_zeros *zeros)
{
	uint8_t *bits = cells->value ? calloc(1, (rows + 7) / 8) : NULL;

	for (size_t i = 0; bits && i < rows; i++)
		bits[i / 8] |= (uint8_t)(((const uint8_t *)cells->value)[i] << i % 8);
	holder->memory[1] = bits;
	holder->buffer[1] = cells->value ? bits : hold_zeros(holder, zeros);
	return holder->buffer[1];
}

/* The validity bits share the memory of the values.  They are copied into memory of their own if
 * the array does not keep that memory: of threes, which the child has, and of flags.  There are few
 * such columns. */
static bool hold_valid(struct ArrowArray *array, struct holder *holder,
		       const struct pfw_read_cells *cells, struct pfw_read_zeros *zeros, bool apart)
{
	size_t rows = (size_t)array->length;

	array->null_count = !cells->value	  ? array->length
			    : cells->dense < rows ? count_nulls(cells->valid, rows)
						  : 0;
	if (!array->null_count)
		return true;
	if (!cells->value) {
		holder->buffer[0] = hold_zeros(holder, zeros);
		return true;
	}
	holder->buffer[0] = cells->valid;
	if (!apart)
		return true;
	holder->buffer[0] = holder->memory[0] = malloc((rows + 7) / 8);
	if (holder->memory[0])
		memcpy(holder->memory[0], cells->valid, (rows + 7) / 8);
	return holder->memory[0];
}

static struct ArrowArray *column_array(enum pfw_read_kind kind, struct pfw_read_cells *cells,
				       size_t rows, struct pfw_read_zeros *zeros)
{
	static const uint8_t buffers[] = { 2, 2, 2, 2, 1, 3, 2 };
	struct holder *holder;
	struct ArrowArray *array = new_array(rows, buffers[kind], &holder);
	bool apart = kind == PFW_READ_DIM3 || kind == PFW_READ_FLAG;
	bool made = array && hold_valid(array, holder, cells, zeros, apart);

	if (made && kind == PFW_READ_DIM3) {
		made = add_item(array, cells, zeros);
	} else if (made && kind == PFW_READ_FLAG) {
		made = hold_flags(holder, cells, rows, zeros);
	} else if (made) {
		holder->value = cells->value;
		holder->buffer[1] = cells->value ? cells->value : hold_zeros(holder, zeros);
	}
	if (made && kind != PFW_READ_FLAG)
		cells->value = NULL;
	if (made && kind == PFW_READ_REST)
		hold_texts(holder, cells, zeros);
	else if (made && pfw_read_has_texts(kind))
		made = add_dictionary(array, cells, zeros);
	if (made || !array)
		return array;
	release_array(array);
	free(array);
	return NULL;
}

int pfw_read_arrow_batch(struct ArrowArray *out, const struct pfw_read_columns *columns,
			 struct pfw_read_batch *batch, struct pfw_read_zeros **zeros)
{
	/* The widest: three int32_t each row, or an offset more than there are rows. */
	bool made = get_zeros(zeros, 12 * batch->rows + 64);

	out->release = NULL;
	made = made && set_array(out, batch->rows, 1) && get_array_children(out, columns->count);
	for (unsigned i = 0; i < columns->count && made; i++)
		made = (out->children[i] = column_array(columns->known[columns->column[i]].kind,
							&batch->cells[i], batch->rows, *zeros)) !=
		       NULL;
	pfw_read_batch_free(batch);
	if (made)
		return 0;
	if (out->release)
		release_array(out);
	return -ENOMEM;
}
