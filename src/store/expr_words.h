/* expr_words.h - an expression while it is compiled: the half of expr.c that its parts share. */
#ifndef PFW_EXPR_WORDS_H
#define PFW_EXPR_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "expr_nodes.h"

#define PFW_PARSER_NOTHING UINT32_MAX /* no node: something is wrong, and said */

struct pfw_parser {
	struct pfw_expr *expr;
	const char *text, *at, *end;
	unsigned depth;
	int error; /* 0, -EINVAL with `why`, -ENOMEM */
	char *why;
	size_t size;
};

/* All of these return the index of a node, or PFW_PARSER_NOTHING.  Thread: the parser's. */

/* Note what is wrong at that place, unless something was before. */
__attribute__((format(printf, 3, 4))) uint32_t
pfw_parser_fail(struct pfw_parser *parser, const char *at, const char *format, ...);
uint32_t pfw_parser_no_memory(struct pfw_parser *parser);

uint32_t pfw_parser_add(struct pfw_parser *parser, const struct pfw_node *node);
uint32_t pfw_parser_add_constant(struct pfw_parser *parser, const char *at,
				 const struct pfw_operand *value);

/* A constant that begins with a digit, with a quote; a field, or true, false, null. */
uint32_t pfw_parser_number(struct pfw_parser *parser);
uint32_t pfw_parser_text(struct pfw_parser *parser);
uint32_t pfw_parser_field(struct pfw_parser *parser);

/* Room for one more of `bytes` each in a list of `count`; false: there is no memory. */
bool pfw_parser_grow(struct pfw_parser *parser, void *list, uint32_t count, uint32_t *room,
		     size_t bytes);

void pfw_parser_space(struct pfw_parser *parser);

/* Take these characters, this whole word, behind space; false: something else is there. */
bool pfw_parser_take(struct pfw_parser *parser, const char *characters);
bool pfw_parser_take_word(struct pfw_parser *parser, const char *word);

/* The bytes of the word at parser->at, without taking it. */
size_t pfw_parser_word(const struct pfw_parser *parser);

/* The closing quote of the text whose opening one is at `at`, or NULL. */
const char *pfw_parser_quote(const struct pfw_parser *parser, const char *at);

static inline bool pfw_parser_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static inline bool pfw_parser_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

#endif
