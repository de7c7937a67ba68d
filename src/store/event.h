/* event.h - spans and inference requests as bytes, one after the other, for batches of the store:
 * varints for numbers that are small, eight bytes for ids and fractions, texts with their length
 * and a NUL. A record begins with its length. A batch is deflated as a whole: names come again and
 * again in it. */
#ifndef SONDE_STORE_EVENT_H
#define SONDE_STORE_EVENT_H

#include "base/buf.h"
#include "model/model.h"
#include "profile/infer.h"
#include "store/chunk.h"

/* ---- Writing: out keeps any error ------------------------------------------------------------ */

void sonde_event_put_span(struct sonde_buf *out, const struct sonde_model_span *span);
/* timeline: with it, if it has one. */
void sonde_event_put_request(struct sonde_buf *out, const struct sonde_infer_request *r,
                             int timeline);

/* ---- Reading: nothing is believed ------------------------------------------------------------ */

/* What a span or a request that was read points to; texts point into the bytes. */
struct sonde_event_room {
    struct sonde_model_attr attrs[SONDE_SPAN_ATTRS_MAX];
    struct sonde_model_part *parts;          /* owned */
    uint32_t part_cap;
    struct sonde_infer_attr request_attrs[SONDE_INFER_ATTRS_MAX];
    struct sonde_infer_item items[SONDE_INFER_ITEMS_MAX];
};
void sonde_event_room_release(struct sonde_event_room *room);

/* The next record's bytes; 0 = there is none, or in->bad. */
int sonde_event_next(struct sonde_chunk_in *in, struct sonde_chunk_in *record);

/* 0, SONDE_EFORMAT or SONDE_ENOMEM. What out points to is good until room is used again. */
int sonde_event_get_span(struct sonde_chunk_in *record, struct sonde_event_room *room,
                         struct sonde_model_span *out);
int sonde_event_get_request(struct sonde_chunk_in *record, struct sonde_event_room *room,
                            struct sonde_infer_request *out);

#endif
