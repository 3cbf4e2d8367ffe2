"""What the topics tell, in bounded memory."""
