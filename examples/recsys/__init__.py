"""An e-commerce recommender trained on real retail purchases: retriever, coarse ranker and ranker."""
