"""What the operator does with a batch's records: pure streaming, without the network.

In: `lines` cuts bytes, `check` judges one record, `ids` finds duplicates, `intake` runs these three in order, and
`split` cuts the good records into parts to upload. Out: `results` reads result files, `merge` writes one line per
`custom_id` of all rounds, in `step` with the records where it can. `pace` keeps each slice of work on the event loop
short.
"""
