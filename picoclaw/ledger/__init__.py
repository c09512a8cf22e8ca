"""What models take and may take: the accounts of a day, its caps, and what enters each request before it is made."""
