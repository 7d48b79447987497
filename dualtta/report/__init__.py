"""From records to what people look at: tables, figures, one page. Reads records and nothing else."""
