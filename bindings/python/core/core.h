/* core.h - what the parts of the extension module pfw._core share. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include <pfw/pfw.h>

/*
 * The vectorcall protocol is in the limited API from 3.12 on only; the flag and the call are the same
 * since 3.9.  What older interpreters may not export is weak, and has a slower way around it.
 */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1ul << 11)
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
typedef PyObject *(*vectorcallfunc)(PyObject *callable, PyObject *const *args, size_t nargsf,
				    PyObject *names);
#endif

typedef PyObject *core_fast_fn(PyObject *self, PyObject *const *args, Py_ssize_t count);
typedef PyObject *core_keywords_fn(PyObject *self, PyObject *const *args, Py_ssize_t count,
				   PyObject *names);

/* UTF-8 of a str, kept by it as long as it lives; of one with lone surrogates "?" stands for those,
 * and *made (to be released) keeps it.  NULL with an exception: not a str. */
const char *core_text(PyObject *text, PyObject **made);

/* Give an open span an argument: a number (also of numpy, or a tensor of one), a str, else str(value).
 * Whatever goes wrong leaves it out: no exception is set. */
void core_span_arg(struct pfw_span *span, PyObject *key, PyObject *value);

/* The same for each item of a dict, or NULL. */
void core_span_args(struct pfw_span *span, PyObject *args);

/* args.error: the type of the exception in flight, which stays.  Nothing without one. */
void core_span_error(struct pfw_span *span);

/* Positional arguments (at least `least`, names NULL) and keywords into `value`, in the order of
 * `words`, whose first `positional` may be given by position; borrowed, NULL where not given.  False
 * with TypeError. */
struct core_words {
	const char *function;
	const char *const *words; /* ends with NULL */
	Py_ssize_t positional, least;
	bool rest; /* keywords that are none of the words are left to the caller */
};
int core_find_word(const struct core_words *words, PyObject *name); /* -1: none of them */
bool core_parse(const struct core_words *words, PyObject *const *args, Py_ssize_t count,
		PyObject *names, PyObject **value);

/* Call it as the vectorcall protocol says. */
PyObject *core_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names);

/*
 * A span that is in progress, and where it stands.
 *
 * Spans nest by thread, which is wrong where tasks take turns in a thread: there an asyncio task's
 * spans nest by its context, and a generator's by the generator.  So one that may be left and entered
 * again (`turns`) notes inside which span its code goes on.  Where a loop runs, what is around
 * an await is told by a context variable; what cannot await (`call`) nests by thread, as without a loop.
 */
struct core_nest {
	uintptr_t loop; /* the loop that ran when the thread's innermost such span began */
	uint64_t span;	/* its id */
	bool stale;	/* tasks have left the thread inside some other */
};

struct core_open {
	struct pfw_span span;
	uint64_t id;		/* 0: not recorded */
	uint64_t inside;	/* the innermost span of its code */
	uint64_t before;	/* the thread's, while it is entered */
	struct core_nest outer; /* from begin() to enter() only: .loop, the one that runs */
	PyObject *token;	/* of the context variable */
	bool entered;
};

enum core_way { CORE_CALL, CORE_BLOCK, CORE_TURNS };

/* Begin a span where the thread or the task is now; then enter() its code, leave() it, and end(). */
void core_begin(struct core_open *open, const char *name, const char *category, enum core_way way);
void core_enter(struct core_open *open, enum core_way way);
void core_leave(struct core_open *open, enum core_way way);
static inline void core_end(struct core_open *open)
{
	pfw_span_end(&open->span);
}

/* A Span object: begun, entered and left by others. */
struct core_span_object {
	PyObject_HEAD PyObject *name, *category, *args; /* str; str or NULL; dict or NULL */
	bool open;
	struct core_open in;
};
bool core_is_span(PyObject *object);
void core_span_begin(struct core_span_object *span, enum core_way way);
void core_span_end(struct core_span_object *span);

/* The span_id of the innermost open span of the running code, 0: none. */
uint64_t core_current(void);

/*
 * A Mark object: marks.c.  `picks` says which arguments of a decorated function its events carry, NULL
 * none: core_mark_take() gives them to the call's span, and for as long as it lasts to the mark, whose
 * other events within the call have them, too; core_mark_args() gives the span what the mark has besides;
 * core_mark_give_back() ends core_mark_take().  An exception in flight stays.
 */
#define CORE_PICKS 4 /* at most: epoch, step, image_idx, image_size */
struct core_taken {
	PyObject *pair;	  /* what a pick has put into the mark */
	PyObject *before; /* what update() had put there */
};
struct core_mark;
bool core_is_mark(PyObject *object);
bool core_mark_on(const struct core_mark *mark);
const char *core_mark_category(const struct core_mark *mark);
void core_mark_take(struct core_mark *mark, struct pfw_span *span, PyObject *picks,
		    PyObject *const *args, Py_ssize_t count, PyObject *names,
		    struct core_taken taken[CORE_PICKS]);
void core_mark_give_back(const struct core_mark *mark, PyObject *picks,
			 struct core_taken taken[CORE_PICKS]);
void core_mark_args(const struct core_mark *mark, struct pfw_span *span, PyObject *picks);

/* Each adds its types and functions to the module.  0, or -1 with an exception. */
int core_add_spans(PyObject *module);
int core_add_recorder(PyObject *module);
int core_add_events(PyObject *module);
int core_add_nest(PyObject *module);
int core_add_traced(PyObject *module);
int core_add_steps(PyObject *module);
int core_add_calls(PyObject *module);
int core_add_marks(PyObject *module);
int core_add_kineto(PyObject *module);
int core_add_gpus(PyObject *module);
int core_add_switch(PyObject *module);
